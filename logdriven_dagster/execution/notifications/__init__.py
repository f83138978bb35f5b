"""Notifications: their rules, their texts and the senders of messages."""
