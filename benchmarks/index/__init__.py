"""Size and speed of index codecs, compared with other compressors."""
