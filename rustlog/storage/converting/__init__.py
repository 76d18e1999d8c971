"""
Turns a data directory of one format into one of another: C{segments} into C{minikafka}, and back.

Offsets, timestamps, keys, values, topics with their settings, and what groups have committed survive.  What
idempotent producers sent is not carried over: a conversion is done while nobody produces.

L{convert <rustlog.storage.converting.conversion.convert>} does all of it, with blocking calls and no reactor.
"""
