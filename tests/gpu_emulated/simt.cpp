// The scheduler of simt.hpp: fibers, barriers, blocks that alternate.
#include "simt.hpp"

#include <csetjmp>
#include <cstdlib>
#include <numeric>
#include <ucontext.h>
#include <utility>
#include <vector>

extern char __start_simt_shared[], __stop_simt_shared[];
static __attribute__((section("simt_shared"), used)) char simt_at_least_a_byte;

namespace simt {
using Word = unsigned long long;
using Entry = void (*)(Word, Word, Word, Word, Word, Word, Word, Word, Word, Word, Word, Word,
                       Word, Word, Word, Word, Word, Word, Word, Word, Word, Word, Word, Word);

enum class Wait { nothing, block, warp, never };
struct Fiber {
  Wait wait = Wait::nothing;
  bool started = false;
  unsigned number = 0, mask = 0, there = 0;
  Word slot = 0;
  char* stack = nullptr;
  ucontext_t context;
  jmp_buf place;
};
struct Block {
  unsigned number = 0;
  std::vector<Fiber> fibers;
  std::vector<Word> brought;  // input of each lane of each warp to its last exchange
  std::vector<char> shared;
};

constexpr size_t stack_bytes = 64 * 1024;
static Block* block;
static Fiber* fiber;
static jmp_buf scheduler;
static Entry entry;
static Word words[24];
static unsigned blocks_in_all;
static Word state;
static std::vector<char*> stacks;

static unsigned drawn(unsigned below) {
  state = state * 6364136223846793005ull + 1442695040888963407ull;
  return (unsigned)((state >> 33) % below);
}

Index thread_index() { return {fiber->number, 0, 0}; }
Index block_index() { return {block->number, 0, 0}; }
Index grid_size() { return {blocks_in_all, 1, 1}; }

static void pause(Wait wait) {
  fiber->wait = wait;
  if (!_setjmp(fiber->place)) _longjmp(scheduler, 1);
}
void yield() { pause(Wait::nothing); }
void barrier() { pause(Wait::block); }
const Word* exchange(Word mine, unsigned mask, unsigned* there) {
  fiber->slot = mine;
  fiber->mask = mask;
  pause(Wait::warp);
  *there = fiber->there;
  return &block->brought[fiber->number & ~31u];
}

static void run() {
  Word* w = words;
  entry(w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7], w[8], w[9], w[10], w[11], w[12], w[13], w[14], w[15],
        w[16], w[17], w[18], w[19], w[20], w[21], w[22], w[23]);
  fiber->wait = Wait::never;
  _longjmp(scheduler, 1);
}

static void resume(Fiber& one) {
  fiber = &one;
  if (_setjmp(scheduler)) return;
  if (one.started) _longjmp(one.place, 1);
  one.started = true;
  getcontext(&one.context);
  one.context.uc_stack.ss_sp = one.stack;
  one.context.uc_stack.ss_size = stack_bytes;
  one.context.uc_link = nullptr;
  makecontext(&one.context, run, 0);
  setcontext(&one.context);
}

// Releases the lanes of a warp if all wait for each other; returns whether there were any.
static bool release_warp(unsigned first) {
  unsigned there = 0, waiting = 0, wanted = 0;
  for (unsigned i = 0; i < 32; i++) {
    Fiber& lane = block->fibers[first + i];
    if (lane.wait != Wait::never) there |= 1u << i;
    if (lane.wait == Wait::warp) waiting |= 1u << i, wanted |= lane.mask;
  }
  if (waiting == 0 || (wanted & there & ~waiting)) return false;
  for (unsigned i = 0; i < 32; i++) {
    if (!(waiting >> i & 1)) continue;
    Fiber& lane = block->fibers[first + i];
    block->brought[first + i] = lane.slot;
    lane.there = waiting;
    lane.wait = Wait::nothing;
  }
  return true;
}

enum class Turn { done, moved, stuck };

// Runs a turn of the current block: every fiber that can run, warps and lanes in any order; then opens barriers.
static Turn turn() {
  unsigned n = (unsigned)block->fibers.size(), warps = n / 32, shift = drawn(warps), flip = drawn(32);
  bool moved = false;
  for (unsigned w = 0; w < warps; w++) {
    unsigned first = (w + shift) % warps * 32;
    if (drawn(4) == 0) continue;  // lets warps diverge
    for (unsigned i = 0; i < 32; i++) {
      Fiber& lane = block->fibers[first + (i ^ flip)];
      if (lane.wait == Wait::nothing) resume(lane), moved = true;
    }
    moved |= release_warp(first);
  }
  unsigned left = 0, waiting = 0, busy = 0;
  for (Fiber& one : block->fibers) {
    left += one.wait != Wait::never;
    waiting += one.wait == Wait::block;
    busy += one.wait == Wait::nothing;
  }
  if (left == 0) return Turn::done;
  if (waiting == left) {
    for (Fiber& one : block->fibers)
      if (one.wait == Wait::block) one.wait = Wait::nothing;
    return Turn::moved;
  }
  return moved || busy ? Turn::moved : Turn::stuck;
}

static void enter(Block* next) {
  if (block == next) return;
  size_t size = (size_t)(__stop_simt_shared - __start_simt_shared);
  if (block) memcpy(block->shared.data(), __start_simt_shared, size);
  block = next;
  if (block) memcpy(__start_simt_shared, block->shared.data(), size);
}

static Block* started(unsigned number, unsigned threads) {
  Block* made = new Block;
  made->number = number;
  made->fibers = std::vector<Fiber>(threads);
  made->brought.resize(threads);
  made->shared.assign((size_t)(__stop_simt_shared - __start_simt_shared), (char)0xA5);
  for (unsigned i = 0; i < threads; i++) {
    made->fibers[i].number = i;
    if (stacks.empty()) stacks.push_back((char*)malloc(stack_bytes));
    made->fibers[i].stack = stacks.back();
    stacks.pop_back();
  }
  return made;
}

static void ended(Block* done) {
  block = nullptr;
  for (Fiber& one : done->fibers) stacks.push_back(one.stack);
  delete done;
}

static int launch(unsigned blocks, unsigned threads, unsigned resident, Word most) {
  std::vector<unsigned> order(blocks);
  std::iota(order.begin(), order.end(), 0u);
  for (unsigned i = blocks; i > 1; i--) std::swap(order[i - 1], order[drawn(i)]);
  std::vector<Block*> live;
  unsigned next = 0, quiet = 0;
  int code = 0;
  for (Word turns = 0; code == 0 && (next < blocks || !live.empty()); turns++) {
    while (next < blocks && live.size() < resident) live.push_back(started(order[next++], threads));
    unsigned i = drawn((unsigned)live.size());
    enter(live[i]);
    Turn was = turn();
    if (was == Turn::done) {
      ended(live[i]);
      live[i] = live.back();
      live.pop_back();
    }
    quiet = was == Turn::stuck ? quiet + 1 : 0;
    if (quiet > 1000) code = 1;
    if (turns > most) code = 2;
  }
  for (Block* left : live) ended(left);
  return code;
}
}  // namespace simt

// Runs a kernel whose parameters are integers of 64 bits or fewer, or pointers. Such parameters are passed as
// whole words by the calling conventions of x86-64 and AArch64 Linux, so one function type calls them all.
// Returns 0 if it ended; 1 if its threads wait for each other forever; 2 if it took more turns than `most`.
extern "C" int simt_launch(void* kernel, unsigned blocks, unsigned threads, unsigned resident,
                           unsigned long long seed, unsigned long long most,
                           const unsigned long long* arguments, unsigned count) {
  simt::entry = (simt::Entry)kernel;
  for (unsigned i = 0; i < 24; i++) simt::words[i] = i < count ? arguments[i] : 0;
  simt::blocks_in_all = blocks;
  simt::state = seed;
  return simt::launch(blocks, threads, resident, most);
}
