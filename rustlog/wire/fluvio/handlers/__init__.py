"""
What the requests of the Fluvio protocol do, in terms of the broker.
"""
