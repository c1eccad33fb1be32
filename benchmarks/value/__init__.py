"""Size, error and speed of value codecs, compared with other compressors."""
