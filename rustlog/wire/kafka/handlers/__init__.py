"""What the requests of the Kafka protocol do, in terms of the broker."""
