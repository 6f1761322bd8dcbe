"""What runs inside a worker, on any backend."""
