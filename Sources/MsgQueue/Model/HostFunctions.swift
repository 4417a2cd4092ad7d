/// Sends one message and returns the outcome, or `.pending`.
package typealias TransportFunction = @Sendable (Delivery) -> Outcome
/// Sends several messages and returns the outcome of each, or `.pending`.
package typealias BatchTransportFunction = @Sendable ([Delivery]) -> [Outcome]

/// The function of the host that sends messages.
package enum Transport: Sendable {
    case single(TransportFunction)
    case batch(BatchTransportFunction, BatchLimits)

    var limits: BatchLimits? { if case .batch(_, let limits) = self { limits } else { nil } }
}
/// Receives one event and its time.
package typealias EventFunction = @Sendable (Event, _ at: Int64) -> Void
