"""Pre-allocated encoding on a GPU. Experimental: nothing here has been measured on hardware."""
