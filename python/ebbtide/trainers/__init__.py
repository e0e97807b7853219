"""What ebbtide.hf, ebbtide.lightning and ebbtide.ray have in common: a budget held over somebody else's loop, and predictions for its step."""
