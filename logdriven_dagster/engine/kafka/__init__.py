"""Kafka support that sources and targets share: clients and offsets."""
