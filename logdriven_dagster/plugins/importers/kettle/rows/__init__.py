"""Row steps of Kettle's transformations, translated to queries."""
