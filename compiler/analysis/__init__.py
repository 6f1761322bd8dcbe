"""What an operator is, before anything is planned."""
