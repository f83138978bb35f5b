"""Kafka topics as sources and targets, and connections to Kafka clusters."""
