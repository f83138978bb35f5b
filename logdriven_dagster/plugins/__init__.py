"""Optional features, found through the entry points that packages of users register, too."""
