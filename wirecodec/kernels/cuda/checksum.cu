// Checksum of bytes whose number the host knows.
#include "checksum.cuh"

// Writes the checksum to zeroed crc[0]; needs at least one block.
KERNEL crc32(const u8* bytes, u64 size, u32* crc) { add_pieces(bytes, size, crc); }
