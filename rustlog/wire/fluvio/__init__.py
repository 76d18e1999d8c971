"""
The Fluvio protocol.

C{codec} joins the pure half: bytes to requests and answers to bytes, by API and version.  Under it each
module has one family of messages:  C{versions}, C{controller} (with the objects in C{topics},
C{partitions} and C{spus}), C{produce}, C{fetching}, C{consumers}.  C{apis} is the table of what is
offered, C{errors} that of what goes wrong, and C{batches} translates what is inside.

C{protocol} is the connection.  C{handlers} do what is asked; C{cluster} is what clients see of the
broker.  What they are told without being asked each time comes from C{watches} and C{streams}, which
write in C{turns}.
"""
