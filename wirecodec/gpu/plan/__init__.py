"""Pre-allocated encoding on a GPU. Experimental: it has not been measured on hardware."""
