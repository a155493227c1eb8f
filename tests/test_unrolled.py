"""What is asked of LLVM for a GPU: loops of the kernel are unrolled, what is cold stays out of line."""

from bionica.engines.cuda.unrolling import unroll

KERNEL = """
define void @"kernel"(i64 %"n")
{
entry:
  br label %"B0"
B0:
  br i1 %".1", label %"B2", label %"B4"
B2:
  %".2" = call i32 @"hot"(i64 %"n")
  %".3" = call i32 @"cold"(i64 %"n")
  br label %"B0"
B4:
  ret void
}
"""
HOT = """
define linkonce_odr i32 @"hot"(i64 %"n") alwaysinline
{
entry:
  br label %"B8"
B8:
  br label %"B8"
}
"""
COLD = (
    HOT.replace("hot", "cold")
    .replace(" alwaysinline", "")
    .replace("entry:", 'entry:\n  %".1" = call i32 @"inner"(i64 1)')
)
INNER = HOT.replace("hot", "inner")


def test_loops_that_end_up_in_the_kernel_are_unrolled():
    kernel, hot, cold, inner = unroll([KERNEL, HOT, COLD, INNER])
    for text, loop in ((kernel, "B0"), (hot, "B8")):
        assert text.count("!llvm.loop") == 1
        (line,) = (line for line in text.splitlines() if "!llvm.loop" in line)
        assert line.startswith(f'  br label %"{loop}", !llvm.loop !')
        number = line.rpartition("!")[2]
        assert f"!{number} = distinct !{{!{number}, !" in text
        assert '!{!"llvm.loop.unroll.full"}' in text
    assert 'br label %"B0", !llvm.loop' not in kernel.partition("B0:")[0]
    assert "noinline" not in kernel + hot + inner
    assert "noinline" in cold
    assert "!llvm.loop" not in cold + inner
