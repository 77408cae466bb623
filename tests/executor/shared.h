// Shared memory that knows who touched what: reads of what nobody wrote, accesses that no barrier orders, and copies that
// have not been waited for are faults, in whatever order the threads happen to run.
#pragma once

#include <cstring>
#include <vector>

#include "block.h"

namespace executor {
namespace {

// Most dynamic shared memory that a block can have on any supported device (compute capability 9.0).
constexpr unsigned MAX_SHARED_BYTES = 227 << 10;
// Bytes that are watched together.
constexpr unsigned WATCHED_BYTES = 4;

constexpr unsigned MANY = ~0u;

// Who last did something, at which barrier of the block and which fence of the warp.
struct Access {
    uint64_t epoch = 0;
    unsigned fence = 0, warp = 0, thread = 0;

    // Whether nothing orders it before what `self` does now.
    bool races_with(const Thread &self) const {
        if (epoch != run.epoch) return false;
        if (warp != self.warp) return true;
        return fence == run.warps[self.warp].fences && thread != self.number;
    }
    void set(const Thread &self) { *this = {run.epoch, run.warps[self.warp].fences, self.warp, self.number}; }
    void add(const Thread &self) {
        if (epoch != run.epoch) return set(self);
        if (warp != self.warp) {
            warp = MANY;
        } else if (fence != run.warps[self.warp].fences) {
            set(self);
        } else if (thread != self.number) {
            thread = MANY;
        }
    }
};

// What is known of a few bytes.
class Watch {
  public:
    void read(const char *what, unsigned at) {
        const Thread &self = *run.current;
        if (copying == run.block_start_epoch) {
            fault(RACE, "reads %s at %u while an asynchronous copy to it is under way", what, at);
        }
        if (written.epoch < run.block_start_epoch) fault(RACE, "reads %s at %u, which nobody has written", what, at);
        if (written.races_with(self)) {
            fault(RACE, "reads %s at %u, which thread %u wrote with no barrier between", what, at, written.thread);
        }
        reads.add(self);
    }
    void write(const char *what, unsigned at) {
        const Thread &self = *run.current;
        if (copying == run.block_start_epoch) {
            fault(RACE, "writes %s at %u while an asynchronous copy to it is under way", what, at);
        }
        if (written.races_with(self)) {
            fault(RACE, "writes %s at %u, which thread %u wrote with no barrier between", what, at, written.thread);
        }
        if (reads.races_with(self)) {
            if (reads.warp == MANY || reads.thread == MANY) {
                fault(RACE, "writes %s at %u, which others read with no barrier between", what, at);
            }
            fault(RACE, "writes %s at %u, which thread %u read with no barrier between", what, at, reads.thread);
        }
        written.set(self);
    }
    void begin_copy(const char *what, unsigned at) {
        write(what, at);
        copying = run.block_start_epoch;
    }
    void end_copy() {
        copying = 0;
        written.set(*run.current);
    }

  private:
    Access written, reads;
    uint64_t copying = 0;
};

// The dynamic shared memory of the block.
class DynamicShared {
  public:
    // NaN in bf16 and in f32, whatever the last block left.
    void poison() { std::memset(bytes, 0xff, run.shared_bytes); }

    unsigned char *read(unsigned at, unsigned size, unsigned alignment) {
        check(at, size, alignment);
        for (unsigned part = 0; part < size; part += WATCHED_BYTES) {
            watches[(at + part) / WATCHED_BYTES].read("shared memory", at + part);
        }
        return bytes + at;
    }
    unsigned char *write(unsigned at, unsigned size, unsigned alignment) {
        check(at, size, alignment);
        for (unsigned part = 0; part < size; part += WATCHED_BYTES) {
            watches[(at + part) / WATCHED_BYTES].write("shared memory", at + part);
        }
        return bytes + at;
    }
    void begin_copy(unsigned at, unsigned size) {
        check(at, size, size);
        for (unsigned part = 0; part < size; part += WATCHED_BYTES) {
            watches[(at + part) / WATCHED_BYTES].begin_copy("shared memory", at + part);
        }
    }
    void land(const Copy &copy, unsigned size) {
        if (copy.global) {
            std::memcpy(bytes + copy.shared, copy.global, size);
        } else {
            std::memset(bytes + copy.shared, 0, size);
        }
    }
    void end_copy(const Copy &copy, unsigned size) {
        for (unsigned part = 0; part < size; part += WATCHED_BYTES) {
            watches[(copy.shared + part) / WATCHED_BYTES].end_copy();
        }
    }

  private:
    void check(unsigned at, unsigned size, unsigned alignment) {
        if (at % alignment != 0) {
            fault(BAD_ACCESS, "accesses shared memory at %u, which is no multiple of %u", at, alignment);
        }
        if (at > run.shared_bytes || size > run.shared_bytes - at) {
            fault(BAD_ACCESS, "accesses %u bytes of shared memory at %u, of %u that the block has", size, at,
                  run.shared_bytes);
        }
    }

    alignas(128) unsigned char bytes[MAX_SHARED_BYTES];
    Watch watches[MAX_SHARED_BYTES / WATCHED_BYTES];
};

DynamicShared dynamic_shared;

// A static shared array: elements are read and written through a stand-in that checks bounds and order.
template <typename T, int COUNT>
class SharedArray {
  public:
    explicit SharedArray(const char *name) : name(name) {}

    class Element {
      public:
        Element(SharedArray &array, unsigned index) : array(array), index(index) {}
        operator T() const {
            array.watches[index].read(array.name, index);
            return array.values[index];
        }
        void operator=(T value) {
            array.watches[index].write(array.name, index);
            array.values[index] = value;
        }

      private:
        SharedArray &array;
        unsigned index;
    };

    Element operator[](unsigned index) {
        if (index >= COUNT) fault(BAD_ACCESS, "accesses %s[%u], of %d elements", name, index, COUNT);
        return Element(*this, index);
    }

  private:
    const char *name;
    T values[COUNT];
    Watch watches[COUNT];
};

}  // namespace
}  // namespace executor
