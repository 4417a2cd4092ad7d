/// What is known of steps of the wall clock in one boot of the system. Times that were stamped before a step forward seem older by its length.
package struct ClockSteps: Sendable, Equatable {
    /// A hash of the boot id; 0: nothing is known.
    var boot: Int64 = 0
    /// The wall clock's difference from the boot clock.
    var offset: Int64 = 0
    /// The latest time that the wall clock showed before a step forward; 0: there was none.
    var from: Int64 = 0
    /// The length of the steps forward.
    var by: Int64 = 0
}
