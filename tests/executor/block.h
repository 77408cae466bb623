// The block that runs: its threads as fibers, its warps, its barriers, and what goes wrong with them.
#pragma once

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "fiber.h"

namespace executor {
namespace {

// What a launch returns; the codes of `rungwise_cpu_launch`.
enum Outcome { DONE = 0, UNKNOWN_KERNEL = 1, DIVERGENCE = 2, BAD_ACCESS = 3, BAD_ARGUMENTS = 4, RACE = 5 };

constexpr unsigned LANES = 32;

struct Index {
    unsigned x, y, z;
};

// A place where threads wait for each other. Equal places have the same text and line.
struct Place {
    const char *what = nullptr;
    const char *file = "";
    int line = 0;
    bool operator==(const Place &other) const {
        return line == other.line && (what == other.what || std::strcmp(what, other.what) == 0);
    }
};

// A copy to shared memory that was begun and has not landed.
struct Copy {
    unsigned shared;
    const void *global;
};

// A thread's copies in the order in which they were begun, and where each closed group of them ends.
class Copies {
  public:
    void forget() {
        begun.clear();
        group_ends.clear();
        waited_for = 0;
    }
    void begin(const Copy &copy) { begun.push_back(copy); }
    void close_group() { group_ends.push_back(begun.size()); }
    // Waits for all but the newest closed groups.
    template <typename Land>
    void wait(size_t newest, Land land) {
        if (group_ends.size() <= newest) return;
        const size_t groups = group_ends.size() - newest, end = group_ends[groups - 1];
        for (; waited_for < end; waited_for++) land(begun[waited_for]);
        group_ends.erase(group_ends.begin(), group_ends.begin() + groups);
        if (group_ends.empty() && waited_for == begun.size()) forget();
    }

  private:
    std::vector<Copy> begun;
    std::vector<size_t> group_ends;
    size_t waited_for = 0;
};

struct Thread {
    Fiber fiber;
    Index index;
    unsigned number, warp, lane;
    bool ended;
    // Where it waits, and for which generation of barrier or warp to pass.
    bool waits_for_block, waits_for_warp;
    unsigned generation;
    Place place;
    Copies copies;
};

// Lanes that have reached the same collective operation.
struct Warp {
    unsigned lanes, arrived, generation;
    // Memory fences of the whole warp passed.
    unsigned fences;
    Place place;
    void *operands[LANES];
};

// Small deterministic generator (xorshift) for the seeded orders.
struct Random {
    uint64_t state;
    unsigned below(size_t count) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        return static_cast<unsigned>(state % count);
    }
    template <typename T>
    void shuffle(std::vector<T> &items) {
        for (size_t left = items.size(); left > 1; left--) std::swap(items[left - 1], items[below(left)]);
    }
};

// One launch. There is one at a time.
struct Run {
    const char *symbol;
    void (*kernel)(const unsigned char *);
    const unsigned char *arguments;
    Index grid, block, block_index;
    unsigned shared_bytes;
    unsigned order;
    Random random;
    Stacks stacks;
    std::vector<Thread> threads;
    std::vector<Warp> warps;
    Thread *current;
    unsigned at_barrier, barriers_passed, ended;
    Place barrier;
    // Counts barriers over all blocks ever run, so that what an earlier block did is always long ago.
    uint64_t epoch = 1, block_start_epoch = 1;
    // Device time, which goes on a little whenever somebody looks.
    uint64_t device_ns;
    Outcome outcome;
    std::string message;
};

Run run;

// Ends the launch with a message about the current thread, on which nothing runs any more.
[[noreturn]] __attribute__((format(printf, 2, 3))) void fault(Outcome outcome, const char *format, ...) {
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    char where[256];
    std::snprintf(where, sizeof where, "%s, block (%u, %u, %u), thread (%u, %u, %u): ", run.symbol, run.block_index.x,
                  run.block_index.y, run.block_index.z, run.current->index.x, run.current->index.y,
                  run.current->index.z);
    run.outcome = outcome;
    run.message = std::string(where) + text;
    for (;;) run.current->fiber.suspend();
}

std::string described(const Place &place) {
    if (place.line == 0) return place.what;
    const char *const slash = std::strrchr(place.file, '/');
    return std::string(place.what) + " (" + (slash ? slash + 1 : place.file) + ":" + std::to_string(place.line) + ")";
}

// Waits until every thread of the block is at this barrier. CUDA leaves undefined what a barrier does that not all threads
// reach; here it is a fault even where a device might let it pass.
void wait_for_block(const char *file, int line) {
    const Place place = {"__syncthreads", file, line};
    if (run.ended > 0) {
        fault(DIVERGENCE, "waits at %s, where %u threads of its block will never come: they have ended",
              described(place).c_str(), run.ended);
    }
    if (run.at_barrier > 0 && !(run.barrier == place)) {
        fault(DIVERGENCE, "waits at %s, others of its block at %s", described(place).c_str(),
              described(run.barrier).c_str());
    }
    run.barrier = place;
    if (++run.at_barrier == run.threads.size()) {
        run.at_barrier = 0;
        run.barriers_passed++;
        run.epoch++;
        return;
    }
    Thread &self = *run.current;
    self.place = place;
    self.waits_for_block = true;
    self.generation = run.barriers_passed;
    self.fiber.suspend();
}

// Waits until every lane of the warp is at the same operation with its `operands`; the last to come does it for all.
template <typename Complete>
void with_warp(const char *what, void *operands, Complete complete) {
    Thread &self = *run.current;
    Warp &warp = run.warps[self.warp];
    const Place place = {what, "", 0};
    if (warp.arrived > 0 && !(warp.place == place)) {
        fault(DIVERGENCE, "is at %s, other lanes of its warp at %s", what, warp.place.what);
    }
    warp.place = place;
    warp.operands[self.lane] = operands;
    if (++warp.arrived == warp.lanes) {
        complete(warp);
        warp.arrived = 0;
        warp.generation++;
        return;
    }
    self.place = place;
    self.waits_for_warp = true;
    self.generation = warp.generation;
    self.fiber.suspend();
}

// How many threads wait where, for the report of a block that cannot go on.
std::string standstill() {
    std::map<std::string, std::pair<unsigned, unsigned>> places;
    for (const Thread &thread : run.threads) {
        const std::string place = thread.ended ? "have ended" : "wait at " + described(thread.place);
        places.emplace(place, std::make_pair(0u, thread.number)).first->second.first++;
    }
    std::string text = std::string(run.symbol) + ", block (" + std::to_string(run.block_index.x) + ", " +
                       std::to_string(run.block_index.y) + ", " + std::to_string(run.block_index.z) + ") cannot go on";
    char separator = ':';
    for (const auto &[place, threads] : places) {
        text += separator + (" " + std::to_string(threads.first)) + " threads " + place + ", the first is thread " +
                std::to_string(threads.second);
        separator = ';';
    }
    return text;
}

bool can_go_on(Thread &thread) {
    if (thread.ended) return false;
    if (thread.waits_for_block && thread.generation == run.barriers_passed) return false;
    if (thread.waits_for_warp && thread.generation == run.warps[thread.warp].generation) return false;
    thread.waits_for_block = thread.waits_for_warp = false;
    return true;
}

void thread_entry() {
    run.kernel(run.arguments);
    run.current->ended = true;
    run.ended++;
    for (;;) run.current->fiber.suspend();
}

// Runs the threads of one block to their end, or to a fault.
void run_block(std::vector<unsigned> &order) {
    const unsigned count = static_cast<unsigned>(run.threads.size());
    run.at_barrier = run.barriers_passed = run.ended = 0;
    run.block_start_epoch = ++run.epoch;
    for (unsigned warp = 0; warp < run.warps.size(); warp++) {
        run.warps[warp] = Warp{};
        run.warps[warp].lanes = std::min(LANES, count - warp * LANES);
    }
    for (unsigned number = 0; number < count; number++) {
        Thread &thread = run.threads[number];
        thread.index = {number % run.block.x, number / run.block.x % run.block.y, number / (run.block.x * run.block.y)};
        thread.number = number;
        thread.warp = number / LANES;
        thread.lane = number % LANES;
        thread.ended = thread.waits_for_block = thread.waits_for_warp = false;
        thread.copies.forget();
        thread.fiber.start(run.stacks.at(number), thread_entry);
    }
    while (run.ended < count) {
        if (run.order >= 2) run.random.shuffle(order);
        bool progress = false;
        for (const unsigned number : order) {
            Thread &thread = run.threads[number];
            if (!can_go_on(thread)) continue;
            progress = true;
            run.current = &thread;
            thread.fiber.resume();
            if (run.outcome != DONE) return;
        }
        if (!progress) {
            run.outcome = DIVERGENCE;
            run.message = standstill();
            return;
        }
    }
    if (run.at_barrier > 0) {
        run.outcome = DIVERGENCE;
        run.message = standstill();
    }
}

}  // namespace
}  // namespace executor
