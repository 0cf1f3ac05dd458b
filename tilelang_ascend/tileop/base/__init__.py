"""What every lowering shares: layouts, addresses as affine forms, temporaries, bounds of tensors."""
