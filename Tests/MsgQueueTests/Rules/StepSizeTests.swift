import Testing

@testable import MsgQueue

@Suite struct StepSizeTests {
    @Test func H9_steps_become_smaller_while_they_take_long_and_larger_afterwards() {
        var size = StepSize(32, in: 4...128)
        for expected: Int64 in [16, 8, 4, 4] {
            size.took(50)
            #expect(size.value == expected)
        }
        size.took(2)
        #expect(size.value == 4)
        for expected: Int64 in [8, 16, 32, 64, 128, 128] {
            size.took(0)
            #expect(size.value == expected)
        }
    }

    @Test func F9_a_step_is_doubled_only_if_the_next_one_is_not_expected_to_take_too_long() {
        var size = StepSize(128, in: 32...1_000, longest: 8)
        for (time, expected): (Int64, Int64) in [(5, 128), (8, 128), (4, 256), (9, 128), (0, 256)] {
            size.took(time)
            #expect(size.value == expected)
        }
    }
}
