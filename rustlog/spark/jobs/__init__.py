"""
The jobs of C{rustlog pipeline}; L{rustlog.spark.pipeline} has them as functions.

    ===================================================  ====================================================
    L{archive <rustlog.spark.jobs.archive>}              topics to Parquet or Delta
    L{replay <rustlog.spark.jobs.replay>}                the way back
    L{audit <rustlog.spark.jobs.audit>}                  every batch of a data directory, verified
    L{report <rustlog.spark.jobs.report>}                figures by topic and hour, and lags of groups
    L{rekey <rustlog.spark.jobs.rekey>}                  a topic by another key
    L{compact <rustlog.spark.jobs.compact>}              the last value of each key
    ===================================================  ====================================================

Each plans in the driver, without Spark; works in workers, which read, decode and write by themselves; and
gives small values back to the driver, which puts them together.  Only C{rekey} and C{compact} let records
go through Spark, as they have to bring those of many partitions together.

    ===================================================  ====================================================
    L{sources <rustlog.spark.jobs.sources>}              brokers and data directories, in pieces
    L{running <rustlog.spark.jobs.running>}              tasks on Spark, with somebody watching
    L{archives <rustlog.spark.jobs.archives>}            directories that grow by whole commits
    L{delivery <rustlog.spark.jobs.delivery>}            records into a partition, exactly once
    L{states <rustlog.spark.jobs.states>}                what a job that writes into a topic remembers
    ===================================================  ====================================================
"""
