// The Rice index codec of one array (rice.cuh), and its decoder.
#include "rice.cuh"

KERNEL rice_plan(const u32* indices, u32 r, u8* parameters, u32* quotients) {
  plan_blocks(indices, r, 0, parameters, quotients, blockIdx.x);
}

// One block.
KERNEL rice_layout(const u8* parameters, const u32* quotients, u32 r, u32* starts) {
  __shared__ u32 parts[WARPS + 1];
  lay_out(parameters, quotients, r, starts, parts);
}

KERNEL rice_directory(const u32* indices, u32 r, const u8* parameters, const u32* starts, u32* words) {
  write_directory(indices, r, 0, parameters, starts, words, blockIdx.x);
}

KERNEL rice_write(const u32* indices, u32 r, const u8* parameters, const u32* starts, u32* words) {
  __shared__ SpanShared shared;
  write_span(indices, r, 0, parameters, starts, words, blockIdx.x, &shared);
}

// One block.
KERNEL rice_open(const u32* words, u32 size, u32 r, u8* parameters, u32* starts, u32* bad) {
  __shared__ OpenShared shared;
  open_section(words, size, r, parameters, starts, bad, &shared);
}

KERNEL rice_read(const u32* words, const u8* parameters, const u32* starts, u32 d, u32 r, u32* indices, u32* bad) {
  __shared__ ReadShared shared;
  read_span(words, parameters, starts, d, r, indices, bad, blockIdx.x, &shared);
}
