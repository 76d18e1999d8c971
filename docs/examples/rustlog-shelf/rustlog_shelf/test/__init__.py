"""Tests that are installed: C{trial rustlog_shelf}."""
