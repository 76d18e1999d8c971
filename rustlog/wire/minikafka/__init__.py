"""The MiniKafka protocol: commands in lines, with payloads as bytes behind them."""
