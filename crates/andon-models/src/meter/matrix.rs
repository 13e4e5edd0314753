//! Small symmetric matrices: as much linear algebra as the meter needs.
//!
//! # Invariants
//!
//! 1. No index is out of range: outside the matrix everything is 0.
//! 2. An inverse is returned only if every number of it is finite.

/// A square matrix of `size` rows.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Matrix {
    size: usize,
    cells: Vec<f64>,
}

impl Matrix {
    /// All zero.
    pub(crate) fn zero(size: usize) -> Self {
        Self { size, cells: vec![0.0; size * size] }
    }

    /// A matrix with these numbers on its diagonal.
    pub(crate) fn diagonal(values: &[f64]) -> Self {
        let mut matrix = Self::zero(values.len());
        for (index, value) in values.iter().enumerate() {
            matrix.add(index, index, *value);
        }
        matrix
    }

    /// From its rows, one behind the other; `None` if they are too many, too few or not finite.
    pub(crate) fn from_cells(size: usize, cells: &[f64]) -> Option<Self> {
        let whole = cells.len() == size * size && cells.iter().all(|cell| cell.is_finite());
        whole.then(|| Self { size, cells: cells.to_vec() })
    }

    /// Its rows, one behind the other.
    pub(crate) fn cells(&self) -> &[f64] {
        &self.cells
    }

    pub(crate) fn at(&self, row: usize, column: usize) -> f64 {
        self.cells.get(row * self.size + column).copied().unwrap_or(0.0)
    }

    pub(crate) fn add(&mut self, row: usize, column: usize, value: f64) {
        if let Some(cell) = self.cells.get_mut(row * self.size + column) {
            *cell += value;
        }
    }

    fn set(&mut self, row: usize, column: usize, value: f64) {
        if let Some(cell) = self.cells.get_mut(row * self.size + column) {
            *cell = value;
        }
    }

    /// `self * factor + other * weight`.
    #[must_use]
    pub(crate) fn blend(&self, factor: f64, other: &Self, weight: f64) -> Self {
        let cells = self.cells.iter().zip(&other.cells).map(|(a, b)| a * factor + b * weight).collect();
        Self { size: self.size, cells }
    }

    /// Adds `weight * x * x'`.
    pub(crate) fn add_square(&mut self, x: &[f64], weight: f64) {
        for (row, a) in x.iter().enumerate() {
            for (column, b) in x.iter().enumerate() {
                self.add(row, column, a * b * weight);
            }
        }
    }

    /// The product with a vector.
    pub(crate) fn times(&self, x: &[f64]) -> Vec<f64> {
        self.cells.chunks(self.size.max(1)).map(|row| dot(row, x)).collect()
    }

    /// The inverse of a positive definite matrix, by Cholesky's decomposition.
    pub(crate) fn inverse(&self) -> Option<Self> {
        let lower = self.cholesky()?;
        let mut inverse = Self::zero(self.size);
        for column in 0..self.size {
            let mut solution = vec![0.0; self.size];
            for row in 0..self.size {
                let unit = if row == column { 1.0 } else { 0.0 };
                let known: f64 = solution.iter().take(row).enumerate().map(|(k, y)| lower.at(row, k) * y).sum();
                put(&mut solution, row, (unit - known) / lower.at(row, row));
            }
            for row in (0..self.size).rev() {
                let known: f64 = solution.iter().enumerate().skip(row + 1).map(|(k, y)| lower.at(k, row) * y).sum();
                let value = (solution.get(row).copied().unwrap_or(0.0) - known) / lower.at(row, row);
                put(&mut solution, row, value);
            }
            for (row, value) in solution.into_iter().enumerate() {
                inverse.set(row, column, value);
            }
        }
        inverse.cells.iter().all(|cell| cell.is_finite()).then_some(inverse)
    }

    fn cholesky(&self) -> Option<Self> {
        let mut lower = Self::zero(self.size);
        for row in 0..self.size {
            for column in 0..=row {
                let known: f64 = (0..column).map(|k| lower.at(row, k) * lower.at(column, k)).sum();
                let rest = self.at(row, column) - known;
                let value = if row == column { rest.sqrt() } else { rest / lower.at(column, column) };
                if !value.is_finite() || (row == column && value <= 0.0) {
                    return None;
                }
                lower.set(row, column, value);
            }
        }
        Some(lower)
    }
}

/// The scalar product.
pub(crate) fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn put(values: &mut [f64], index: usize, value: f64) {
    if let Some(slot) = values.get_mut(index) {
        *slot = value;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_matrix_times_its_inverse_is_one() {
        let mut matrix = Matrix::diagonal(&[2.0, 3.0, 0.5]);
        matrix.add_square(&[1.0, -2.0, 0.3], 1.5);
        let inverse = matrix.inverse().unwrap();
        for index in 0..3 {
            let mut unit = vec![0.0; 3];
            unit[index] = 1.0;
            let back = matrix.times(&inverse.times(&unit));
            for (got, wanted) in back.iter().zip(&unit) {
                assert!((got - wanted).abs() < 1e-9, "{got} for {wanted}");
            }
        }
    }

    #[test]
    fn a_matrix_without_an_inverse_has_none() {
        assert_eq!(Matrix::zero(2).inverse(), None);
        assert_eq!(Matrix::diagonal(&[1.0, f64::NAN]).inverse(), None);
    }
}
