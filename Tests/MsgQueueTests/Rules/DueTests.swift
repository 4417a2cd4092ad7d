import Testing

@testable import MsgQueue

@Suite struct DueTests {
    private let begin = Moment(wall: 1_700_000_000_000, mono: 50_000)
    private let year: Int64 = 31_536_000_000

    private func end(_ due: Due, boot: Int64, wall: Int64, mono: Int64) -> Int64 {
        due.end(Opening(boot: boot, moment: Moment(wall: wall, mono: mono)))
    }

    @Test func M6_within_one_boot_the_delay_does_not_depend_on_the_wall_clock() {
        let due = Due(after: 60_000, begin, boot: 1)
        #expect(due.at == begin.wall + 60_000)
        for shift in [-year, -120_000, 0, 120_000, year] {
            #expect(end(due, boot: 1, wall: begin.wall + shift, mono: 70_000) == 110_000)
        }
    }

    @Test func M6_after_a_reboot_the_wall_clock_counts() {
        let due = Due(after: 60_000, begin, boot: 1)
        #expect(end(due, boot: 2, wall: begin.wall + 20_000, mono: 3_000) == 43_000)
        #expect(end(due, boot: 2, wall: begin.wall + 60_000, mono: 3_000) == 3_000)
        #expect(end(due, boot: 2, wall: begin.wall + year, mono: 3_000) == 3_000)
    }

    @Test func M6_after_a_reboot_with_a_clock_that_went_back_the_whole_delay_begins_again() {
        let due = Due(after: 60_000, begin, boot: 1)
        for shift in [Int64(-1), -60_000, -year] { #expect(end(due, boot: 2, wall: begin.wall + shift, mono: 3_000) == 63_000) }
        // The same where the boot is not known.
        #expect(end(Due(at: due.at, delay: 60_000), boot: 2, wall: begin.wall - year, mono: 3_000) == 63_000)
    }

    @Test func no_stored_number_traps() {
        #expect(end(Due(at: .max, delay: .max, boot: 1, uptime: .max), boot: 2, wall: -5, mono: 3_000) == .max)
        #expect(end(Due(at: .max, delay: .min, boot: 1, uptime: .min), boot: 1, wall: .min, mono: 3_000) == 3_000)
    }
}
