"""The console tool C{rustlog}: a client of a running broker, and a look at data directories."""
