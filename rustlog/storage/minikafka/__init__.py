"""
The C{minikafka} store: data directories of MiniKafka, as they are.

It is the store L{segments <rustlog.storage.segments>} with another layout of the files in C{logs/}: single
records (L{format <rustlog.storage.minikafka.format>}) instead of batches.  Whatever does not fit there
lies beside: indexes, checkpoints, and a journal of what idempotent producers sent.
"""
