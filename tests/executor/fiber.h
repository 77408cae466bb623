// Fibers: each has a stack of its own and runs until it suspends itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

// -DRUNGWISE_UCONTEXT takes the slow switch of other processors here too.
#if !defined(__x86_64__) && !defined(RUNGWISE_UCONTEXT)
#define RUNGWISE_UCONTEXT
#endif

#if defined(RUNGWISE_UCONTEXT)
#include <ucontext.h>
#else
// Saves the callee-saved registers and the stack of the caller, and goes on where `to` was saved.
extern "C" void rungwise_switch(void **save, void *to) __attribute__((visibility("hidden")));
asm(R"(
.text
.hidden rungwise_switch
.globl rungwise_switch
.type rungwise_switch, @function
rungwise_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.size rungwise_switch, .-rungwise_switch
)");
#endif

namespace executor {
namespace {

// Room for the largest kernel many times over; a page below it faults instead of running into the neighbour.
constexpr size_t STACK_BYTES = 64 << 10;

// Stacks are mapped once and used again by every launch.
class Stacks {
  public:
    char *at(size_t index) {
        while (stacks.size() <= index) {
            const size_t guard = static_cast<size_t>(sysconf(_SC_PAGESIZE));
            void *const mapped =
                mmap(nullptr, guard + STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            if (mapped == MAP_FAILED || mprotect(mapped, guard, PROT_NONE) != 0) return nullptr;
            stacks.push_back(static_cast<char *>(mapped) + guard);
        }
        return stacks[index];
    }

  private:
    std::vector<char *> stacks;
};

#if !defined(RUNGWISE_UCONTEXT)

class Fiber {
  public:
    // Will run `entry`, which never returns.
    void start(char *stack, void (*entry)()) {
        void **top = reinterpret_cast<void **>(stack + STACK_BYTES);
        // A return address that is never used leaves the stack aligned as a call would.
        *--top = nullptr;
        *--top = reinterpret_cast<void *>(entry);
        for (int callee_saved = 0; callee_saved < 6; callee_saved++) *--top = nullptr;
        inside = top;
    }
    void resume() { rungwise_switch(&outside, inside); }
    void suspend() { rungwise_switch(&inside, outside); }

  private:
    void *inside = nullptr;
    void *outside = nullptr;
};

#else

class Fiber {
  public:
    void start(char *stack, void (*entry)()) {
        getcontext(&inside);
        inside.uc_stack.ss_sp = stack;
        inside.uc_stack.ss_size = STACK_BYTES;
        inside.uc_link = nullptr;
        makecontext(&inside, entry, 0);
    }
    void resume() { swapcontext(&outside, &inside); }
    void suspend() { swapcontext(&inside, &outside); }

  private:
    ucontext_t inside;
    ucontext_t outside;
};

#endif

}  // namespace
}  // namespace executor
