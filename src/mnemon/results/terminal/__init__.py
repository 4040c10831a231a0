"""What runs came to, as tables and lines of a terminal."""
