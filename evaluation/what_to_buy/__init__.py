"""What to buy for full fine-tuning: speed, drive life and cost of machines, predicted."""
