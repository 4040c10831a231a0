"""What runs leave behind and what follows from it; nothing here imports torch."""
