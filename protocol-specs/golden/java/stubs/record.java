/** So that one import list serves the releases before and after 4.4, which moved its classes into this package. */
package org.apache.kafka.common.record.internal;

final class NothingHere { }
