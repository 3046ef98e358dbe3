"""What a server reports about itself: metrics, request log, running calls, traces."""
