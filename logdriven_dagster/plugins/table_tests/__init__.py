"""Tests of tables (`logdriven test`): given rows, windows on the real engine, expected rows."""
