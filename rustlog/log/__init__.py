"""The domain: batches, records, producers.  Plain Python, no I/O, no clock."""
