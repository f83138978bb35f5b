"""Values that all layers speak of: windows, periods, attempts, logs. Nothing is read or written."""
