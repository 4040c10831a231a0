"""Ways into mnemon from other libraries, and out of it."""
