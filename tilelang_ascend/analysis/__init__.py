"""Facts about IR. Nothing in this package changes a program."""
