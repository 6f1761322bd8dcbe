"""What an operator computes, as a hash that is the same in every process: equal hashes, equal operators."""
