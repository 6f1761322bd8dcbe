"""Messages and state as bytes, for disks, processes and rows of a backend alike."""
