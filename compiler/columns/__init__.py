"""Values as columns: Arrow, numpy, dictionaries, exact sums, and expressions over them."""
