"""Sail, another engine that speaks Spark Connect: its server, its sessions, its row counts."""
