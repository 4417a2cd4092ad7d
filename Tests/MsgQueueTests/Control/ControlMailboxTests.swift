import Glibc
import Testing

@testable import MsgQueue

/// What wakes the thread of a control socket.
@Suite struct ControlMailboxTests {
    private func isReadable(_ mailbox: ControlMailbox) -> Bool {
        var watched = pollfd(fd: mailbox.descriptor, events: Int16(POLLIN), revents: 0)
        return poll(&watched, 1, 0) == 1
    }

    private let event = Event.deleted(id: "a", conversation: "ana")

    @Test func I3_events_that_are_delivered_later_wake_nobody() throws {
        let mailbox = try ControlMailbox()
        mailbox.receive(event, at: 1)
        #expect(isReadable(mailbox))
        #expect(mailbox.take().events.count == 1 && !isReadable(mailbox))
        mailbox.setPatient(true)
        mailbox.receive(event, at: 2)
        mailbox.countsChanged()
        #expect(!isReadable(mailbox))
        mailbox.setPatient(false)
        #expect(isReadable(mailbox))
        let contents = mailbox.take()
        #expect(contents.events.map(\.at) == [2] && contents.isSummaryDue)
        mailbox.setPatient(true)
        mailbox.setPatient(false)
        #expect(!isReadable(mailbox))
    }

    @Test func I3_answers_the_end_and_many_events_wake_a_patient_thread() throws {
        let mailbox = try ControlMailbox()
        mailbox.setPatient(true)
        for _ in 0..<999 { mailbox.receive(event, at: 1) }
        #expect(!isReadable(mailbox))
        mailbox.receive(event, at: 1)
        #expect(isReadable(mailbox))
        #expect(mailbox.take().events.count == 1_000)
        mailbox.answer(ControlMailbox.Answer(client: 1, line: [], job: nil))
        #expect(isReadable(mailbox))
        _ = mailbox.take()
        mailbox.stop()
        #expect(isReadable(mailbox))
    }
}
