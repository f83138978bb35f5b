"""Kafka as sources and targets share it: clients and offsets."""
