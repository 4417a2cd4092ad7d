/// Attempts whose beginning is in the open transaction. After its commit their calls are made.
struct Beginnings {
    /// One of them. Without a reservation the core puts the message in flight after the commit.
    struct Beginning {
        let attempt: CallQueue.Attempt
        let transport: Registration<Transport>
        let reservation: Core.Reservation?
    }

    private(set) var all: [Beginning] = []

    var isEmpty: Bool { all.isEmpty }
    var count: Int { all.count }
    /// The values of the rows of `in_flight`.
    var rows: [(sequence: Int64, number: UInt32, startedAt: Int64)] {
        all.map { beginning in
            let flight = beginning.attempt.flight
            return (flight.sequence, flight.number, flight.startedAt.wall)
        }
    }

    mutating func add(_ attempt: CallQueue.Attempt, _ transport: Registration<Transport>, _ reservation: Core.Reservation?) {
        all.append(Beginning(attempt: attempt, transport: transport, reservation: reservation))
    }

    /// Returns the attempts in the order in which they are reported; those of a batch are grouped by conversation.
    func attempts(ofBatch isBatch: Bool) -> [CallQueue.Attempt] {
        let attempts = all.map(\.attempt)
        return isBatch ? attempts.grouped : attempts
    }

    /// Takes the messages out of flight again, the last one first.
    mutating func withdraw(from core: inout Core, _ now: Moment) {
        for reservation in all.reversed().compactMap(\.reservation) { core.withdraw(reservation, now) }
        all = []
        core.dropBatch()
    }
}
