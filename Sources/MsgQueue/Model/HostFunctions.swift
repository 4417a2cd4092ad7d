/// Sends one message: answers with an outcome, or `.pending`.
package typealias TransportFunction = @Sendable (Delivery) -> Outcome
/// Is told one event, and when it happened.
package typealias EventFunction = @Sendable (Event, _ at: Int64) -> Void
