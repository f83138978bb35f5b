"""Reading of files by engines that do not convert values themselves, such as Sail."""
