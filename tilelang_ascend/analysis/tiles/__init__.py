"""What a division of tiles may do: which rows and elements statements own, share or leave out; which core they need."""
