"""What every lowering shares: layouts, addresses as sums, temporaries, bounds of tensors."""
