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
}
